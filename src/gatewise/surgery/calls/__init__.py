"""gatewise.surgery.calls."""
