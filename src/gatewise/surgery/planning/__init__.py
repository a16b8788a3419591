"""gatewise.surgery.planning."""
