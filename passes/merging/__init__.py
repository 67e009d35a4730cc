"""Merges operators with a common input (operator merge of the IOS paper, Ding et al., 2021)."""
