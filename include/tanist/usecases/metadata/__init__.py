"""`tanist metadata diff|sync`: topics, partitions and configs of a mirror follow the source. Create and change only."""
