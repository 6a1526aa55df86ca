"""The data sets known by name: where they live, what shape they have, what to know about them.

A name always means the same data, wherever they are found. A part of a set therefore has a name
of its own (``covtype-sample``, ``ijcnn1-train``), so that it never passes for the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_plus, urlsplit

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_UCI = "https://archive.ics.uci.edu"
_PMLB = "https://github.com/EpistasisLab/pmlb/raw/master/datasets"

_CC_BY = "CC BY 4.0"
_NOT_STATED = "not stated; cite the source"
_DELVE = "free for research (DELVE)"


@dataclass(frozen=True)
class File:
    """A file as its public home hands it out.

    `sha256` is None where the home publishes none and no copy was at hand: the hash of the first
    fetch is then recorded and every later use must match it. `members` are patterns of what to
    read inside a zip archive; their rows are stacked in the order of the names.
    """

    url: str
    sha256: str | None = None
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """File name in the cache and in the folder of MERCER_DATA."""
        return unquote_plus(urlsplit(self.url).path.rsplit("/", 1)[-1]).replace(" ", "_")


@dataclass(frozen=True)
class Prepared:
    """An NPZ file that holds all of a set, looked up by name in the folder of MERCER_DATA."""

    name: str
    sha256: str | None = None


@dataclass(frozen=True)
class Entry:
    """Facts about one set; `train` and `test` are empty where nothing can be fetched."""

    name: str
    task: str
    n_features: int
    n_train: int | None
    n_test: int | None
    source: str
    licence: str
    note: str = ""
    train: File | None = None
    test: File | None = None
    prepared: Prepared | None = None
    shipped: bool = False
    sparse: bool = False
    is_sample: bool = False
    stand_in_for: str | None = None
    is_series: bool = False
    # Of a table that is read whole: the columns (from, to) of the features, and of the target.
    features: tuple[int, int] = (0, -1)
    targets: tuple[int, ...] = (-1,)
    # Which columns of a many-column y of a prepared file are the target.
    y_columns: tuple[int, ...] | None = None

    @property
    def files(self) -> tuple[File, ...]:
        """Files of the public home, each once."""
        return tuple(dict.fromkeys(file for file in (self.train, self.test) if file))


def _libsvm(path: str, sha256: str | None = None) -> File:
    return File(f"{_LIBSVM}/{path}", sha256)


_UJI = File(
    f"{_UCI}/static/public/310/ujiindoorloc.zip",
    "893512b82dfd7a7c345d84195b1c8019fbca0fa0d7820ce491ce5aa45ec3782f",
)
_UJI_TRAIN = File(_UJI.url, _UJI.sha256, ("*trainingData.csv",))
_UJI_TEST = File(_UJI.url, _UJI.sha256, ("*validationData.csv",))
_UJI_PREPARED = Prepared(
    "ujiindoorloc.npz", "e56e507fc035058d79d0203cfb2c5300954524ea6a136727954d97d1dfd40401"
)
_BLOG = File(
    f"{_UCI}/static/public/304/blogfeedback.zip",
    "1ba74e5ad920f7cd037502b2968581cc695146a226a73eff52fe8ad875ed4bcf",
)
_IJCNN1_NOTE = "Rows are overlapping windows of one time series: never split them at random."

# One set is one paragraph: name, task, features, training and test rows, home, licence.
# fmt: off
_CLASSIFICATION = (
    Entry(
        "letter", "classification", 16, 15000, 5000,
        f"{_UCI}/dataset/59/letter+recognition", _CC_BY,
        "Slate, D. (1991). Integers 0 to 15; X / 7.5 - 1 is the scaling of the LIBSVM page, whose "
        "row order and split these are.",
        shipped=True,
    ),
    Entry(
        "pendigits", "classification", 16, 7494, 3498,
        f"{_UCI}/dataset/81/pen+based+recognition+of+handwritten+digits", _CC_BY,
        "Integers 0 to 100; the test part has other writers.",
        _libsvm("multiclass/pendigits"),
        _libsvm("multiclass/pendigits.t"),
        Prepared(
            "pendigits.npz", "7165304eccfe4327df99969bf1ca8da0f8801b9740a38d83eae346bf98372f76"
        ),
    ),
    Entry(
        "a9a", "classification", 123, 32561, 16281,
        f"{_UCI}/dataset/2/adult", _CC_BY,
        "0/1 features; the last one never occurs in the test part.",
        _libsvm("binary/a9a"),
        _libsvm("binary/a9a.t"),
        Prepared("a9a.npz", "1dda86a965005de6f5cdf56a50351505710ebdaa8b41db19caff1131e753e6a9"),
    ),
    Entry(
        "w8a", "classification", 300, 49749, 14951,
        f"{_LIBSVM}/binary.html#w8a", _NOT_STATED,
        "0/1 features, sparse; 3 % of the rows are positive.",
        _libsvm("binary/w8a"),
        _libsvm("binary/w8a.t"),
        sparse=True,
    ),
    Entry(
        "w8a-train", "classification", 300, 49749, None,
        f"{_LIBSVM}/binary.html#w8a", _NOT_STATED,
        "The official training part of w8a alone; 3 % of the rows are positive.",
        _libsvm("binary/w8a"),
        prepared=Prepared(
            "w8a_csr.npz", "a2046e6bead1dacf9239d8db42f848afde31452aaf056fa5ff1b9fe7f73fd73f"
        ),
        sparse=True, is_sample=True, stand_in_for="w8a",
    ),
    Entry(
        "ijcnn1", "classification", 22, 49990, 91701,
        f"{_LIBSVM}/binary.html#ijcnn1", _NOT_STATED,
        _IJCNN1_NOTE,
        _libsvm("binary/ijcnn1.bz2"),
        _libsvm("binary/ijcnn1.t.bz2"),
        is_series=True,
    ),
    Entry(
        "ijcnn1-train", "classification", 22, 35000, 14990,
        f"{_LIBSVM}/binary.html#ijcnn1", _NOT_STATED,
        "The training rows of ijcnn1 in their official tr and val parts; results in the "
        f"literature are on another test part. {_IJCNN1_NOTE}",
        _libsvm("binary/ijcnn1.tr.bz2"),
        _libsvm("binary/ijcnn1.val.bz2"),
        Prepared("ijcnn1.npz", "226c406283b15da4e85183b7c44dabbf17980fa3302694f6c55b50b19562b30f"),
        is_sample=True, stand_in_for="ijcnn1", is_series=True,
    ),
    Entry(
        "cod-rna", "classification", 8, 59535, 271617,
        f"{_LIBSVM}/binary.html#cod-rna", _NOT_STATED,
        "Raw values of very unequal scales.",
        _libsvm("binary/cod-rna"),
        _libsvm("binary/cod-rna.t"),
    ),
    Entry(
        "cod-rna-train", "classification", 8, 59535, None,
        f"{_LIBSVM}/binary.html#cod-rna", _NOT_STATED,
        "The official training part of cod-rna alone, every column standardised; 49451 rows are "
        "distinct.",
        prepared=Prepared(
            "cod_rna.npz", "47b17aca32c25d24998e59ca19dc616ad0b36fc9279e3ad1e5e9852f295f1386"
        ),
        is_sample=True, stand_in_for="cod-rna",
    ),
    Entry(
        "covtype", "classification", 54, 581012, None,
        f"{_UCI}/dataset/31/covertype", _CC_BY,
        "Class 2 (lodgepole pine) against the rest; raw.",
        _libsvm("binary/covtype.libsvm.binary.bz2"),
    ),
    Entry(
        "covtype-sample", "classification", 54, 23018, None,
        f"{_UCI}/dataset/31/covertype", _CC_BY,
        "23018 distinct rows of covtype; +1 is class 2.",
        prepared=Prepared(
            "covtype_binary_23k.npz",
            "9480be646834df218aee543ffd57aca60c93b8e01c2e94cae4e06b296591b740",
        ),
        is_sample=True, stand_in_for="covtype",
    ),
    Entry(
        "covtype-mult", "classification", 54, 581012, None,
        f"{_UCI}/dataset/31/covertype", _CC_BY,
        "Seven classes; raw.",
        _libsvm("multiclass/covtype.bz2"),
    ),
    Entry(
        "covtype-mult-sample", "classification", 54, 11318, None,
        f"{_UCI}/dataset/31/covertype", _CC_BY,
        "Every 50th row of covtype-mult: the natural mix of classes, class 4 has 8 rows.",
        prepared=Prepared(
            "covtype_mult_11k.npz",
            "b65fc18b3cd04a6e86b5ee3fd18ec89be86b84007b7b2b4f084371dfcbb05a6a",
        ),
        is_sample=True, stand_in_for="covtype-mult",
    ),
    Entry(
        "covtype-mult-first20k", "classification", 54, 20000, None,
        f"{_UCI}/dataset/31/covertype", _CC_BY,
        "The first 20000 rows of covtype-mult: classes nearly balanced, not the natural mix.",
        prepared=Prepared(
            "covtype_mult_first20k.npz",
            "2fce09bc090c6c225edf4217cdf0d58fdd7805f970c05cea3de23a58d4093b23",
        ),
        is_sample=True, stand_in_for="covtype-mult",
    ),
    Entry(
        "susy", "classification", 18, 5000000, None,
        f"{_UCI}/dataset/279/susy", _CC_BY,
        "By custom the last 500000 rows are the test part.",
        _libsvm("binary/SUSY.xz"),
    ),
    Entry(
        "susy-sample", "classification", 18, 30000, None,
        f"{_UCI}/dataset/279/susy", _CC_BY,
        "30000 rows of susy.",
        prepared=Prepared(
            "susy_30k.npz", "af14d9b07e1055b02c71f2a377f9175371f654c7c53f146a4a203b9da7ba303c"
        ),
        is_sample=True, stand_in_for="susy",
    ),
    Entry(
        "higgs", "classification", 28, 11000000, None,
        f"{_UCI}/dataset/280/higgs", _CC_BY,
        "By custom the last 500000 rows are the test part.",
        _libsvm("binary/HIGGS.xz"),
    ),
    Entry(
        "mnist", "classification", 784, 60000, 10000,
        f"{_LIBSVM}/multiclass.html#mnist", "CC BY-SA 3.0",
        "LeCun, Cortes and Burges; pixels 0 to 255.",
        _libsvm("multiclass/mnist.bz2"),
        _libsvm("multiclass/mnist.t.bz2"),
        Prepared("mnist.npz", "58c05ffd9880e3b6ddfe8c74b89ccc40c0da6f6152f4c5203a7c6a12919c2344"),
    ),
    Entry(
        "acoustic", "classification", 50, 78823, 19705,
        f"{_LIBSVM}/multiclass.html#SensIT%20Vehicle%20(acoustic)", _NOT_STATED,
        "SensIT Vehicle, Duarte and Hu (2004).",
        _libsvm("multiclass/vehicle/acoustic.bz2"),
        _libsvm("multiclass/vehicle/acoustic.t.bz2"),
    ),
    Entry(
        "aloi", "classification", 128, 108000, None,
        f"{_LIBSVM}/multiclass.html#aloi", _NOT_STATED,
        "Geusebroek, Burghouts and Smeulders (2005); 1000 classes.",
        _libsvm("multiclass/aloi.bz2"),
    ),
    Entry(
        "sector", "classification", 55197, 6412, 3207,
        f"{_LIBSVM}/multiclass.html#sector", _NOT_STATED,
        "McCallum and Nigam (1998), 105 classes, scaled; serves where rcv1 or aloi is too large.",
        _libsvm(
            "multiclass/sector/sector.scale.bz2",
            "cba3d66eed97803665eeb76379fe9d9955712ea0e5c61d7003f644713ed842b5",
        ),
        _libsvm(
            "multiclass/sector/sector.t.scale.bz2",
            "c8c26e073abd92dda9e2a7903546fbe3c783a8d6141ec3fad360de4c0a572cbc",
        ),
        sparse=True, stand_in_for="rcv1",
    ),
    Entry(
        "rcv1", "classification", 47236, 20242, 677399,
        f"{_LIBSVM}/binary.html#rcv1.binary", _NOT_STATED,
        "Lewis et al. (2004), two classes; AsyDSSKL trains on the test part.",
        _libsvm("binary/rcv1_train.binary.bz2"),
        _libsvm("binary/rcv1_test.binary.bz2"),
        sparse=True,
    ),
    Entry(
        "kddcup10", "classification", 41, 494020, None,
        f"{_UCI}/dataset/130/kdd+cup+1999+data", _CC_BY,
        "70 % of the rows are duplicates: for scaling runs, its accuracy means little.",
        File(f"{_PMLB}/kddcup/kddcup.tsv.gz"),
        prepared=Prepared(
            "kddcup10.npz", "7fcbe32586dfa90e37bf950e6594bab09b1ba35a64cd038cd660260e5370072b"
        ),
    ),
    Entry(
        "ujiindoorloc-floor", "classification", 520, 19937, 1111,
        f"{_UCI}/dataset/310/ujiindoorloc", _CC_BY,
        "The floor (5 classes); signal strengths in dBm, 100 where an access point is not heard.",
        _UJI_TRAIN,
        _UJI_TEST,
        _UJI_PREPARED,
        features=(0, 520), targets=(522,), y_columns=(2,),
    ),
)

_REGRESSION = (
    Entry(
        "cadata", "regression", 8, 20640, None,
        f"{_LIBSVM}/regression.html#cadata", "free to use (StatLib)",
        "California housing, raw; y is the median house value, 14999 to 500001.",
        _libsvm("regression/cadata"),
        prepared=Prepared(
            "cadata.npz", "dcc58802e598c571bc44d31465dc831f32206484e535072c8c7c45bbc609e68e"
        ),
    ),
    Entry(
        "cpu", "regression", 21, 8192, None,
        "https://www.cs.toronto.edu/~delve/data/comp-activ/desc.html", _DELVE,
        "Comp-activ with all 21 features, raw; y is the share of user time, 0 to 99.",
        File(f"{_PMLB}/573_cpu_act/573_cpu_act.tsv.gz"),
        prepared=Prepared(
            "cpu.npz", "0ce5d3527e98b36aac730037ac31045c28a17b8774d2659fd6b722db507e8ab6"
        ),
    ),
    Entry(
        "cpusmall", "regression", 12, 8192, None,
        f"{_LIBSVM}/regression.html#cpusmall", _DELVE, "Comp-activ with 12 of its features, raw.",
        _libsvm("regression/cpusmall"),
    ),
    Entry(
        "census", "regression", 119, None, None,
        "https://www.cs.toronto.edu/~delve/data/census-house/desc.html", _DELVE,
        "Census-house with the 119 features of the papers; it has to be prepared by hand.",
        prepared=Prepared("census.npz"),
    ),
    Entry(
        "house-16h", "regression", 16, 22784, None,
        "https://www.cs.toronto.edu/~delve/data/census-house/desc.html", _DELVE,
        "Census-house with 16 of its columns: not the 119-feature set of the papers.",
        File(f"{_PMLB}/574_house_16H/574_house_16H.tsv.gz"),
        prepared=Prepared(
            "house_16H.npz", "48fcfde20f3a657a12614d5bb1eb778ccd96010f774b45590606dd72b904453c"
        ),
        stand_in_for="census",
    ),
    Entry(
        "yearpredictionmsd", "regression", 90, 463715, 51630,
        f"{_UCI}/dataset/203/yearpredictionmsd", _CC_BY,
        "The test part has other artists: keep the official split.",
        _libsvm("regression/YearPredictionMSD.bz2"), _libsvm("regression/YearPredictionMSD.t.bz2"),
    ),
    Entry(
        "blogfeedback", "regression", 280, 52397, 7624,
        f"{_UCI}/dataset/304/blogfeedback", _CC_BY,
        "y counts comments and has a heavy tail; the test part is later in time, days stacked.",
        File(_BLOG.url, _BLOG.sha256, ("*blogData_train.csv",)),
        File(_BLOG.url, _BLOG.sha256, ("*blogData_test*.csv",)),
        Prepared(
            "blogfeedback.npz", "d36a4dc9e1209307e8203244675af4d295f25068aa3fdb057f161ccb8555466a"
        ),
        features=(0, 280), targets=(280,),
    ),
    Entry(
        "slice-localization", "regression", 384, 53500, None,
        f"{_UCI}/dataset/206/relative+location+of+ct+slices+on+axial+axis", _CC_BY,
        "Several slices per patient: rows of a random split are not independent.",
        File(
            f"{_UCI}/static/public/206/relative+location+of+ct+slices+on+axial+axis.zip",
            members=("*slice_localization_data.csv",),
        ),
        features=(1, 385), targets=(385,),
    ),
    Entry(
        "ujiindoorloc", "regression", 520, 19937, 1111,
        f"{_UCI}/dataset/310/ujiindoorloc", _CC_BY,
        "y is longitude and latitude in metres; signal strengths in dBm, 100 where an access "
        "point is not heard.",
        _UJI_TRAIN, _UJI_TEST, _UJI_PREPARED,
        features=(0, 520), targets=(520, 521), y_columns=(0, 1),
    ),
)
# fmt: on

ENTRIES = {entry.name: entry for entry in (*_CLASSIFICATION, *_REGRESSION)}
