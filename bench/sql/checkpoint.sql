-- Everything that was written is on disk, and the next change of each page is logged as a whole.
CHECKPOINT;
