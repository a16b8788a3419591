"""gatewise.surgery.proof."""
