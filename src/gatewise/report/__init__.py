"""Records in, one HTML file out. Knows nothing of units, runs or studies: only the plain records of `records`."""
