"""How to cite the library and the paper."""

_LIBRARY = """\
@software{edl,
  title   = {edl: Explore, Discover and Learn in {JAX}},
  author  = {{The edl contributors}},
  year    = {2026},
  version = {VERSION},
}"""

_PAPER = """\
@inproceedings{campos2020edl,
  title     = {Explore, Discover and Learn: Unsupervised Discovery of State-Covering Skills},
  author    = {Campos, V{\\'i}ctor and Trott, Alexander and Xiong, Caiming and Socher, Richard and
               Gir{\\'o}-i-Nieto, Xavier and Torres, Jordi},
  booktitle = {Proceedings of the 37th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {119},
  pages     = {1317--1327},
  year      = {2020},
  publisher = {PMLR},
}"""


def citation() -> str:
    """BibTeX of this library and of the paper it implements (Campos et al., ICML 2020)."""
    from edl import __version__

    return f"{_LIBRARY.replace('VERSION', __version__)}\n\n{_PAPER}\n"
