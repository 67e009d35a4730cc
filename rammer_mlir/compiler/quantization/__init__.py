"""Regions in 8 or 16 bits: calibration by running the program, and the choice by its noise."""
