"""How to cite the library, the paper, and the methods."""

from typing import NamedTuple

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

ICLR = "International Conference on Learning Representations"
ICML = "International Conference on Machine Learning"
NEURIPS = "Advances in Neural Information Processing Systems"
CORL = "Conference on Robot Learning"
NATURE = "Nature"


class Reference(NamedTuple):
    """The paper of a method. ``venue`` is a conference, a journal, or arXiv with its number."""

    year: int
    title: str
    authors: str
    venue: str

    @property
    def bibtex(self) -> str:
        key = f"{self.authors.partition(',')[0].lower().replace(' ', '')}{self.year}"
        kind, field = ("inproceedings", "booktitle")
        if self.venue.startswith("arXiv"):
            kind, field = ("misc", "note")
        elif self.venue == NATURE:
            kind, field = ("article", "journal")
        entries = {"title": self.title, "author": self.authors, field: self.venue, "year": str(self.year)}
        return "\n".join([f"@{kind}{{{key},", *(f"  {name:<9} = {{{text}}}," for name, text in entries.items()), "}"])


METRA = Reference(
    2024,
    "{METRA}: Scalable Unsupervised {RL} with Metric-Aware Abstraction",
    "Park, Seohong and Rybkin, Oleh and Levine, Sergey",
    ICLR,
)
APT = Reference(
    2021,
    "Behavior From the Void: Unsupervised Active Pre-Training",
    "Liu, Hao and Abbeel, Pieter",
    NEURIPS,
)
REFERENCES: dict[str, Reference] = {
    "dads": Reference(
        2020,
        "Dynamics-Aware Unsupervised Discovery of Skills",
        "Sharma, Archit and Gu, Shixiang and Levine, Sergey and Kumar, Vikash and Hausman, Karol",
        ICLR,
    ),
    "diayn": Reference(
        2019,
        "Diversity is All You Need: Learning Skills without a Reward Function",
        "Eysenbach, Benjamin and Gupta, Abhishek and Ibarz, Julian and Levine, Sergey",
        ICLR,
    ),
    "discern": Reference(
        2019,
        "Unsupervised Control Through Non-Parametric Discriminative Rewards",
        "Warde-Farley, David and Van de Wiele, Tom and Kulkarni, Tejas and Ionescu, Catalin and Hansen, Steven and "
        "Mnih, Volodymyr",
        ICLR,
    ),
    "metra": METRA,
    "metra_ppo": METRA,
    "skewfit": Reference(
        2020,
        "Skew-Fit: State-Covering Self-Supervised Reinforcement Learning",
        "Pong, Vitchyr H. and Dalal, Murtaza and Lin, Steven and Nair, Ashvin and Bahl, Shikhar and Levine, Sergey",
        ICML,
    ),
    "snn4hrl": Reference(
        2017,
        "Stochastic Neural Networks for Hierarchical Reinforcement Learning",
        "Florensa, Carlos and Duan, Yan and Abbeel, Pieter",
        ICLR,
    ),
    "valor": Reference(
        2018,
        "Variational Option Discovery Algorithms",
        "Achiam, Joshua and Edwards, Harrison and Amodei, Dario and Abbeel, Pieter",
        "arXiv:1807.10299",
    ),
    "vic": Reference(
        2016,
        "Variational Intrinsic Control",
        "Gregor, Karol and Rezende, Danilo Jimenez and Wierstra, Daan",
        "arXiv:1611.07507",
    ),
    "visr": Reference(
        2020,
        "Fast Task Inference with Variational Intrinsic Successor Features",
        "Hansen, Steven and Dabney, Will and Barreto, Andre and Warde-Farley, David and Van de Wiele, Tom and "
        "Mnih, Volodymyr",
        ICLR,
    ),
    "lsd": Reference(
        2022,
        "Lipschitz-constrained Unsupervised Skill Discovery",
        "Park, Seohong and Choi, Jongwook and Kim, Jaekyeom and Lee, Honglak and Kim, Gunhee",
        ICLR,
    ),
    "csd": Reference(
        2023,
        "Controllability-Aware Unsupervised Skill Discovery",
        "Park, Seohong and Lee, Kimin and Lee, Youngwoon and Abbeel, Pieter",
        ICML,
    ),
    "csf": Reference(
        2025,
        "Can a {MISL} Fly? Analysis and Ingredients for Mutual Information Skill Learning",
        "Zheng, Chongyi and Tuyls, Jens and Peng, Joanne and Eysenbach, Benjamin",
        ICLR,
    ),
    "apt": APT,
    "aps": Reference(
        2021,
        "{APS}: Active Pretraining with Successor Features",
        "Liu, Hao and Abbeel, Pieter",
        ICML,
    ),
    "cic": Reference(
        2022,
        "{CIC}: Contrastive Intrinsic Control for Unsupervised Skill Discovery",
        "Laskin, Michael and Liu, Hao and Peng, Xue Bin and Yarats, Denis and Rajeswaran, Aravind and Abbeel, Pieter",
        "arXiv:2202.00161",
    ),
    "becl": Reference(
        2023,
        "Behavior Contrastive Learning for Unsupervised Skill Discovery",
        "Yang, Rushuai and Bai, Chenjia and Guo, Hongyi and Li, Siyuan and Zhao, Bin and Wang, Zhen and Liu, Peng and "
        "Li, Xuelong",
        ICML,
    ),
    "disco_dance": Reference(
        2023,
        "Learning to Discover Skills through Guidance",
        "Kim, Hyunseung and Lee, Byung Kun and Lee, Hojoon and Hwang, Dongyoon and Park, Sejik and Min, Kyushik and "
        "Choo, Jaegul",
        NEURIPS,
    ),
    "rsd": Reference(
        2025,
        "Efficient Skill Discovery via Regret-Aware Optimization",
        "Zhang, He and Zhou, Ming and Zhai, Shaopeng and Sun, Ying and Xiong, Hui",
        ICML,
    ),
    "map_elites": Reference(
        2015,
        "Illuminating Search Spaces by Mapping Elites",
        "Mouret, Jean-Baptiste and Clune, Jeff",
        "arXiv:1504.04909",
    ),
    "fb": Reference(
        2021,
        "Learning One Representation to Optimize All Rewards",
        "Touati, Ahmed and Ollivier, Yann",
        NEURIPS,
    ),
    "hilp": Reference(
        2024,
        "Foundation Policies with {H}ilbert Representations",
        "Park, Seohong and Kreiman, Tobias and Levine, Sergey",
        ICML,
    ),
    "smm": Reference(
        2019,
        "Efficient Exploration via State Marginal Matching",
        "Lee, Lisa and Eysenbach, Benjamin and Parisotto, Emilio and Xing, Eric and Levine, Sergey and "
        "Salakhutdinov, Ruslan",
        "arXiv:1906.05274",
    ),
    "rnd": Reference(
        2019,
        "Exploration by Random Network Distillation",
        "Burda, Yuri and Edwards, Harrison and Storkey, Amos and Klimov, Oleg",
        ICLR,
    ),
    "knn": APT,
    "maxent": Reference(
        2019,
        "Provably Efficient Maximum Entropy Exploration",
        "Hazan, Elad and Kakade, Sham and Singh, Karan and Van Soest, Abby",
        ICML,
    ),
    "go_explore": Reference(
        2021,
        "First Return, Then Explore",
        "Ecoffet, Adrien and Huizinga, Joost and Lehman, Joel and Stanley, Kenneth O. and Clune, Jeff",
        NATURE,
    ),
    "tldr": Reference(
        2024,
        "{TLDR}: Unsupervised Goal-Conditioned {RL} via Temporal Distance-Aware Representations",
        "Bae, Junik and Park, Kwanyoung and Lee, Youngwoon",
        CORL,
    ),
}
"""The papers of the methods without stages, and of the explorers."""
IN_THE_PAPER = ("edl", "reverse_mi", "forward_mi", "oracle")
"""Methods and explorers that are in the paper of EDL."""
OURS = ("frontier", "random_walk", "drift", "beyond", "hindsight")
"""Explorers that are in no paper: their reference is this library."""
PAPER_YEAR = 2020


def citation(method: str | None = None) -> str:
    """BibTeX of the paper of a method or explorer. Without a name, and if there is no paper, of this library.

    Without a name it includes the paper that this library implements (Campos et al., ICML 2020).
    """
    from edl import __version__
    from edl.config import check_name  # here, because it imports JAX, and `import edl` does not

    library = _LIBRARY.replace("VERSION", __version__)
    if method is None:
        return f"{library}\n\n{_PAPER}\n"
    check_name(method, [*IN_THE_PAPER, *OURS, *REFERENCES], "method or explorer")
    if method in OURS:
        return f"{library}\n"
    return f"{_PAPER if method in IN_THE_PAPER else REFERENCES[method].bibtex}\n"


def year_of(method: str) -> int | None:
    """The year in which a method or explorer was published. None if it is in no paper, or not in this library."""
    reference = REFERENCES.get(method)
    return reference.year if reference is not None else PAPER_YEAR if method in IN_THE_PAPER else None
