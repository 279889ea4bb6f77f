"""Free capacity: per node, and per equivalence class of nodes and of pods."""
