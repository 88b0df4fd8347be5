"""What released models do with the encodings: conventions, positions, checkpoints, configs."""
