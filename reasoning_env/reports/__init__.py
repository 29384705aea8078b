"""What commands show of stored runs: the page of `report`."""
