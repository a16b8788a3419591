"""gatewise.surgery.swaps."""
