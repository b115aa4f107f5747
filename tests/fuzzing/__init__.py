"""What the fuzz targets share: seeds, mutations, the loop that runs them, and the way to make a
finding small."""
