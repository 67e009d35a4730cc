"""Small things that every layer uses: files, folders, aligned memory, this processor."""
