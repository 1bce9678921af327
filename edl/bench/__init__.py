"""What `edl bench` measures. Contestants take turns, so that what else the machine does falls on all of them alike."""
