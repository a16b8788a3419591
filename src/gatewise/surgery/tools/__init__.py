"""gatewise.surgery.tools."""
