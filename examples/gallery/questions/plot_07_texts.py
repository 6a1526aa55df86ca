"""
Which texts belong together?
============================

Which of these texts are about the same thing? The rows are descriptions of functions and classes
of SciPy, as its authors wrote them; the part of SciPy that each is from is hidden from the model.
"""

import importlib
import inspect

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer

from mercer.unsupervised import KernelKMeans

rows = []
for part in ("fft", "interpolate", "linalg", "ndimage"):
    module = importlib.import_module(f"scipy.{part}")
    for name in module.__all__:
        text = (inspect.getdoc(getattr(module, name)) or "").split("\nParameters")[0]
        own = [paragraph for paragraph in text.split("\n\n") if "core" not in paragraph]
        rows.append((part, name, " ".join(" ".join(own).split())))
texts = pd.DataFrame(rows, columns=["part", "name", "text"]).drop_duplicates("text")
print(texts.iloc[::60].to_string(index=False, max_colwidth=70))

# %%
# Counts of words, those of frequent words reduced, are the inputs; a paragraph about "core" shapes
# that many descriptions share is left out above. Texts with the same words have a large linear
# kernel; :class:`~mercer.unsupervised.KernelKMeans` makes four groups of them:
counter = TfidfVectorizer(stop_words="english", min_df=5)
counts = counter.fit_transform(texts.text)
group = KernelKMeans(4, kernel="linear", scale=False, random_state=0).fit_predict(counts)

# %%
# Words that are more frequent in a group than elsewhere name it:
words = counter.get_feature_names_out()
names = []
for number in range(4):
    excess = counts[group == number].mean(0) - counts[group != number].mean(0)
    names.append(", ".join(words[np.argsort(-np.asarray(excess).ravel())[:3]]))
table = pd.crosstab(group, texts.part)
figure, ax = plt.subplots(figsize=(7, 3.4))
ax.imshow(table, cmap="Blues", aspect="auto")
ax.set_xticks(range(4), table.columns)
ax.set_yticks(range(4), names)
ax.set(xlabel="part of SciPy", ylabel="words of the group")
for (row, column), count in np.ndenumerate(table.to_numpy()):
    ax.text(column, row, count, ha="center", va="center", color="w" if count > 40 else "k")
plt.show()

# %%
# The answer:
right = table.max(axis=1).sum()
share = right / len(texts)
print(f"{right} of {len(texts)} texts ({share:.0%}) are from the part that leads their group.")
