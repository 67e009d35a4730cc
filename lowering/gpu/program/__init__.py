"""From an rProgram to one persistent kernel: its loop, task table and barriers."""
