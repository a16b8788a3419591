"""The commands of ``gatewise``, one file each."""
