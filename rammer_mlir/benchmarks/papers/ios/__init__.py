"""IOS's evaluation (Ding et al., MLSys 2021): its studies and its exhibits."""
