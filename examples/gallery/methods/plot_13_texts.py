"""
Texts by their n-grams
======================

Maps and kernels of texts take sequences of strings. Hashed counts of n-grams need no vocabulary and
make a linear model of any stream of texts. The figure shows how alike some titles are.
"""

import matplotlib.pyplot as plt

from mercer.kernels import NGram

titles = [
    "random features for kernel machines",
    "random binning features",
    "sparse random features for kernels",
    "how to bake sourdough bread",
    "sourdough bread without a mixer",
    "a mixer for small kitchens",
]
alike = NGram(orders=(1, 2))(titles, titles)

figure, ax = plt.subplots(figsize=(7, 3.4))
image = ax.imshow(alike, vmin=0, vmax=1, aspect="auto")
ax.set_yticks(range(len(titles)), titles)
ax.set_xticks([])
figure.colorbar(image, label="kernel")
plt.show()

# %%
# The same counts, hashed, are features of a classifier:
from mercer import KernelClassifier

topics = [0, 0, 0, 1, 1, 1]
model = KernelClassifier("ngrams", random_state=0).fit(titles, topics)
print(model.predict(["features of random kernels", "bread from small kitchens"]))
