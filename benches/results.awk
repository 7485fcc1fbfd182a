# Medians of rounds, for `report` of lib.sh. What was not measured is left out.

function sorted(list, n,    i, j, t) {
    for (i = 2; i <= n; i++)
        for (j = i; j > 1 && list[j - 1] > list[j]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
}
function middle(list, n) { return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2 }

# The median of the rounds, and their range.
function median_of(key, unit,    i, list) {
    if (!n[key]) return
    for (i = 1; i <= n[key]; i++) list[i] = value[key, i]
    sorted(list, n[key])
    printf "%-20s median %8d %s, %d to %d\n", key, middle(list, n[key]), unit, list[1], list[n[key]]
}
function iops(key) { median_of(key, "IOPS") }

# The median of the ratios of each round, and their range, with the goal if there is one.
function ratio(of, over, goal,    i, list) {
    if (!n[of] || !n[over]) return
    for (i = 1; i <= n[of]; i++) list[i] = value[over, i] ? value[of, i] / value[over, i] : 0
    sorted(list, n[of])
    printf "%s over %s: median of the pairs %.2f, %.2f to %.2f%s\n", of, over, middle(list, n[of]), list[1], list[n[of]],
        goal ? sprintf(" (goal: %.2f)", goal) : ""
}

{ key = $1 " " $2; value[key, ++n[key]] = $3 }
