"""XuanCe's memories up to 1.1: tuples come out, and sizes count the steps of one environment."""
