"""What commands measure and compare: the audit, evaluations side by side, and the page of `report`."""
