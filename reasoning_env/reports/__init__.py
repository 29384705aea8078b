"""Read stored runs, and make the HTML page of the command `report`."""
