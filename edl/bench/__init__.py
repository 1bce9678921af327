"""The benchmark behind `edl bench`. Contestants take turns, so that other load on the machine affects all of them."""
