"""Families of functions over dictionaries, pairs, and words grouped into dictionaries."""

from __future__ import annotations

from collections import Counter

from engine.recipes.corpus.code_families import Family

_D = (("d", "scores"),)
_P = (("p", "pairs"),)
_WS = (("ws", "words"),)


def _summed(pairs: list[tuple[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for name, _ in pairs)
    return {name: sum(value for other, value in pairs if other == name) for name in names}


def _grouped(words: list[str], key: str) -> dict[object, list[str]]:
    keys = [len(word) if key == "length" else word[0] for word in words]
    return {k: [w for w, other in zip(words, keys, strict=True) if other == k] for k in dict.fromkeys(keys)}


RECORD_FAMILIES = (
    Family("best_key", ("best_key", "who_leads", "top_name"),
           ("returns the key with the highest value in $d, the first if several",
            "finds the first name with the largest "
            "value in $d"), _D, "str",
           (("with max", "return max($d, key=$d.get)"),
            ("using a loop", '$best = ""\nfor key in $d:\n    if $best == "" or $d[key] > $d[$best]:\n'
             "        $best = key\nreturn $best")),
           lambda d: next(k for k, v in d.items() if v == max(d.values()))),
    Family("names_above", ("names_above_$k", "over_$k", "passed_$k"),
           ("returns the sorted names in $d whose value is above $k",
            "lists in order the keys of $d with a value over "
            "$k"), _D, "list[str]",
           (("in one line", "return sorted(key for key, $item in $d.items() if $item > $k)"),
            ("using a loop", "$out = []\nfor key, $item in $d.items():\n    if $item > $k:\n"
             "        $out.append(key)\nreturn sorted($out)")),
           lambda d, k: [n for n in sorted(d) if d[n] > k], (("k", (3, 4, 5, 6, 7, 8)),)),
    Family("filter_dict", ("keep_from_$k", "at_least_$k", "filter_$k"),
           ("returns the entries of $d with a value of at least $k",
            "keeps only the items of $d whose value is $k or "
            "more"), _D, "dict[str, int]",
           (("with a comprehension", "return {key: $item for key, $item in $d.items() if $item >= $k}"),
            ("using a loop", "$out = {}\nfor key in $d:\n    if $d[key] >= $k:\n        $out[key] = $d[key]\n"
             "return $out")), lambda d, k: dict(p for p in d.items() if p[1] >= k),
           (("k", (3, 4, 5, 6, 7)),)),
    Family("scale_dict", ("raise_all", "scale_by_$k", "times_$k"),
           ("returns $d with every value multiplied by $k", "multiplies each value in $d by $k"), _D,
           "dict[str, int]",
           (("with a comprehension", "return {key: $item * $k for key, $item in $d.items()}"),
            ("using a loop",
             "$out = {}\nfor key, $item in $d.items():\n    $out[key] = $item * $k\nreturn $out")),
           lambda d, k: dict(zip(d, (v * k for v in d.values()), strict=True)), (("k", (2, 3, 4, 5)),)),
    Family("invert", ("invert", "swap_keys", "flip_dict"),
           ("returns a dictionary from the values of $d to its keys", "swaps the keys and values of $d"), _D,
           "dict[int, str]",
           (("with a comprehension", "return {$item: key for key, $item in $d.items()}"),
            ("using a loop", "$out = {}\nfor key in $d:\n    $out[$d[key]] = key\nreturn $out")),
           lambda d: dict(zip(d.values(), d.keys(), strict=True))),
    Family("total_values", ("total_value", "sum_values", "grand_total"),
           ("adds up the values of $d", "returns the sum of all values in $d"), _D, "int",
           (("in one line", "return sum($d.values())"),
            ("using a loop", "$total = 0\nfor key in $d:\n    $total += $d[key]\nreturn $total")),
           lambda d: sum(d[k] for k in d)),
    Family("ranking", ("ranking", "rank_names", "by_value"),
           ("returns the keys of $d from the highest to the lowest value",
            "lists the names in $d by value, highest "
            "first"), _D, "list[str]",
           (("with a key", "return sorted($d, key=lambda key: -$d[key])"),
            ("with reverse", "return sorted($d, key=$d.get, reverse=True)")),
           lambda d: [k for v in range(20, 0, -1) for k in d if d[k] == v]),
    Family("report", ("format_items", "report", "as_text"),
           ("returns the items of $d as text like 'name=1' joined by '$s'",
            "writes each key and value of $d as key=value "
            "with '$s' between"), _D, "str",
           (("in one line", 'return "$s".join(f"{key}={$item}" for key, $item in $d.items())'),
            ("using a loop", '$out = []\nfor key, $item in $d.items():\n    $out.append(f"{key}={$item}")\n'
             'return "$s".join($out)')),
           lambda d, s: s.join(k + "=" + str(d[k]) for k in d), (("s", (", ", "; ", "&", " ")),)),
    Family("sum_pairs", ("sum_by_name", "totals_by_name", "add_per_name"),
           ("adds the numbers in $p per name and returns a dictionary",
            "returns a dict with the total of each name in "
            "$p"), _P, "dict[str, int]",
           (("with get", "$out = {}\nfor name, $item in $p:\n    $out[name] = $out.get(name, 0) + $item\n"
             "return $out"),
            ("with if",
             "$out = {}\nfor name, $item in $p:\n    if name not in $out:\n        $out[name] = 0\n"
             "    $out[name] += $item\nreturn $out")), _summed),
    Family("sort_pairs", ("sort_pairs", "names_by_number", "order_pairs"),
           ("returns the names in $p sorted by their numbers",
            "lists the names of $p in order of the number beside "
            "them"), _P, "list[str]",
           (("with a key", "return [name for name, _ in sorted($p, key=lambda pair: pair[1])]"),
            ("using a loop", "$out = []\nfor name, _ in sorted($p, key=lambda pair: pair[1]):\n"
             "    $out.append(name)\nreturn $out")),
           lambda p: [name for n in range(20) for name, v in p if v == n]),
    Family("group_length", ("group_by_length", "words_by_length", "length_groups"),
           ("groups $ws by length in a dictionary of lists",
            "returns a dict from each length to the words of $ws with "
            "it"), _WS, "dict[int, list[str]]",
           (("with setdefault",
             "$out = {}\nfor $part in $ws:\n    $out.setdefault(len($part), []).append($part)\n"
             "return $out"),
            ("with if", "$out = {}\nfor $part in $ws:\n    if len($part) not in $out:\n"
             "        $out[len($part)] = []\n    $out[len($part)].append($part)\nreturn $out")),
           lambda v: _grouped(v, "length")),
    Family("group_initial", ("group_by_initial", "index_words", "by_first_letter"),
           ("groups $ws by first letter in a dictionary of lists",
            "returns a dict from first letters to lists of the "
            "words in $ws"), _WS, "dict[str, list[str]]",
           (("with setdefault",
             "$out = {}\nfor $part in $ws:\n    $out.setdefault($part[0], []).append($part)\n"
             "return $out"),
            ("with if",
             "$out = {}\nfor $part in $ws:\n    if $part[0] not in $out:\n        $out[$part[0]] = []\n"
             "    $out[$part[0]].append($part)\nreturn $out")), lambda v: _grouped(v, "first letter")),
    Family("length_map", ("word_lengths", "length_map", "measure_words"),
           ("returns a dictionary from each word in $ws to its length",
            "maps every word of $ws to its length in a dict"),
           _WS, "dict[str, int]",
           (("with a comprehension", "return {$part: len($part) for $part in $ws}"),
            ("using a loop", "$out = {}\nfor $part in $ws:\n    $out[$part] = len($part)\nreturn $out")),
           lambda v: dict(zip(v, map(len, v), strict=True))),
    Family("initial_counts", ("count_initials", "initial_counts", "tally_initials"),
           ("counts the first letters of $ws in a dictionary",
            "returns a dict with how many words of $ws start with "
            "each letter"), _WS, "dict[str, int]",
           (("using a loop", "$out = {}\nfor $part in $ws:\n    $out[$part[0]] = $out.get($part[0], 0) + 1\n"
             "return $out"),
            ("in two steps", "letters = [$part[0] for $part in $ws]\n"
             "return {letter: letters.count(letter) for letter in letters}")),
           lambda v: dict(Counter(w[0] for w in v))),
)
