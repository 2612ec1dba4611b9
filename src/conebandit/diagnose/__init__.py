"""How far apart populations of contexts are, when one has moved, and how smooth and how clear rewards are."""
