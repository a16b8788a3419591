"""gatewise.surgery.propagate."""
