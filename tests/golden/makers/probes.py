"""Makes tests/golden/probes.safetensors: vectors, and the linear probes that scikit-learn fits to them.

For each set `NAME.x` [row, d], `NAME.labels` [row] and `NAME.targets` [row, 2]; for each model
`NAME.MODEL.FORM.weight` and `.intercept`, in terms of x as it is. FORM is `plain`, `origin` (no intercept),
`standardized`, `standardized_origin`, and `strong` (another penalty). Components are numpy's, by a singular value
decomposition.
"""

import sys

import numpy
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.preprocessing import StandardScaler

from .projections import kGoldens

kForms = {"plain": (True, False, 1.0), "origin": (False, False, 1.0), "standardized": (True, True, 1.0),
          "standardized_origin": (False, True, 1.0), "strong": (True, False, 30.0)}


def sets() -> dict:
    random = numpy.random.default_rng(40)
    made = {}
    x = random.normal(size=(60, 5)) * [1, 3, 0.2, 1, 5] + [0, 1, 0, -2, 40]
    made["balanced"] = x, (x[:, 0] + 0.3 * x[:, 1] + random.normal(size=60) > 0.3).astype(int)
    x = random.normal(size=(90, 4)) + [0, 5, 0, 0]
    made["imbalanced"] = x, (x @ [1, 0.5, -1, 0.2] + random.normal(size=90) > 5.2).astype(int)
    labels = numpy.arange(75) % 3
    labels[:20] = 0
    made["three"] = random.normal(size=(75, 4)) + numpy.eye(4)[:3][labels] * 1.5, labels
    x = random.normal(size=(40, 6))
    x[:, 3] = x[:, 0] + x[:, 1]  # collinear
    x[:, 4] = 7.25  # constant
    x[:, 5] = x[:, 2]
    made["collinear"] = x, (x[:, 0] - x[:, 2] + 0.5 * random.normal(size=40) > 0).astype(int)
    x = random.normal(size=(10, 16)) + 3
    made["few"] = x, numpy.array([0, 1] * 5)
    return made


def fitted(make, x: numpy.ndarray, y: numpy.ndarray, standardized: bool) -> tuple:
    scaler = StandardScaler(with_mean=standardized, with_std=standardized).fit(x)
    model = make().fit(scaler.transform(x), y)
    weight = numpy.atleast_2d(model.coef_)
    intercept = numpy.atleast_1d(model.intercept_) + numpy.zeros(len(weight))
    if standardized:
        weight = weight / scaler.scale_
        intercept = intercept - weight @ scaler.mean_
    return weight, intercept


def main(_: list) -> None:
    made = {}
    random = numpy.random.default_rng(41)
    for name, (x, labels) in sets().items():
        targets = x[:, :2] * [1, -2] + random.normal(size=(len(x), 2)) + 4
        made |= {f"{name}.x": x, f"{name}.labels": labels, f"{name}.targets": targets}
        for form, (intercept, standardized, penalty) in kForms.items():
            models = {
                "ridge": (lambda: Ridge(alpha=penalty, fit_intercept=intercept), targets),
                "classifier": (lambda: RidgeClassifier(alpha=penalty, fit_intercept=intercept), labels),
                "logistic": (lambda: LogisticRegression(C=1 / penalty, fit_intercept=intercept, tol=1e-12, max_iter=100_000,
                                                        solver="newton-cg"), labels),
            }
            for model, (make, y) in models.items():
                weight, bias = fitted(make, x, y, standardized)
                made |= {f"{name}.{model}.{form}.weight": weight, f"{name}.{model}.{form}.intercept": bias}
        centred = x - x.mean(0)
        _, singular, vectors = numpy.linalg.svd(centred, full_matrices=False)
        made |= {f"{name}.components": vectors[:3], f"{name}.variance": singular[:3] ** 2 / (len(x) - 1),
                 f"{name}.share": singular[:3] ** 2 / (singular ** 2).sum()}
    file = kGoldens / "probes.safetensors"
    save_file({name: torch.tensor(numpy.ascontiguousarray(value)) for name, value in sorted(made.items())}, file)
    print(f"{file.stat().st_size / 1e3:.0f} kB", file=sys.stderr)
