"""gatewise.surgery.binding."""
