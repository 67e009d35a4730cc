"""Reproduce IOS's evaluation (Ding et al., MLSys 2021): studies, figures and tables."""
