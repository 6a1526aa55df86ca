"""
Will this flight be late?
=========================

Will a flight that leaves next month be late? The table has 4800 flights from New York in 2013 with
the weather of their hour: dates, words, numbers and missing cells.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.metrics import roc_auc_score

from mercer import AutoKernelClassifier
from mercer.datasets import load

data = load("flights")
flights, answer = data.X.to_pandas(), data.y
print(flights.assign(late=answer).head(4).T.to_string(header=False))

# %%
# Flights of January to September are the past. The model holds the latest of them out to choose its
# settings, because ``time="date"`` says that rows are ordered:
months = pd.to_datetime(flights.date).dt.month
past = months <= 9
model = AutoKernelClassifier(time="date", random_state=0).fit(flights[past], answer[past])

# %%
# Each flight of October to December gets a chance of being late:
coming, was_late = flights[~past], answer[~past] == "late"
chance = model.predict_proba(coming)[:, list(model.classes_).index("late")]
shown = coming[["date", "sched_dep_time", "carrier", "dest"]].assign(chance=chance.round(2))
print(shown.iloc[::300].to_string(index=False))

# %%
# Five groups of flights, from the smallest chance to the largest, and the share that was late:
fifth = pd.qcut(chance, 5, labels=False)
groups = pd.DataFrame({"chance": chance, "late": was_late}).groupby(fifth).mean()
figure, ax = plt.subplots()
ax.bar(range(5), groups.late, color="C0", label="share that was late")
ax.plot(range(5), groups.chance, "ko", label="mean predicted chance")
ax.set_xticks(range(5), ["smallest\nfifth", "second", "third", "fourth", "largest\nfifth"])
ax.set(xlabel="flights by predicted chance", ylabel="share of flights", ylim=(0, 0.5))
ax.legend()
plt.show()

# %%
# More flights were late than the model expected; :doc:`plot_10_probability` tells why. The answer:
pairs = roc_auc_score(was_late, chance)
low, high = groups.late.iloc[[0, -1]]
print(f"Of the fifth with the smallest chances {low:.0%} were late, of the largest {high:.0%}.")
print(
    f"Of a late flight and one on time, the late one has the larger chance in {pairs:.0%} of pairs."
)
print(f"The largest chance of all flights is {chance.max():.0%}.")
