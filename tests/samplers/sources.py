"""Data with random access."""


class Source:
    """Records that a function reads by their row."""

    def __init__(self, length, read):
        self.length, self.read = length, read

    def __len__(self):
        return self.length

    def __getitem__(self, row):
        return self.read(row)
