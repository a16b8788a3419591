"""gatewise.surgery.rewrite."""
