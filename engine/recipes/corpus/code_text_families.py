"""Families of functions over a word, a sentence or a list of words, over dictionaries and over pairs."""

from __future__ import annotations

import re
from collections import Counter

from engine.recipes.corpus.code_tasks import Family

_W = (("w", "word"),)
_S = (("s", "sentence"),)
_WS = (("ws", "words"),)
_LETTERS = tuple("aeilnorst")

TEXT_FAMILIES = (
    Family("reverse", ("reverse_text", "backwards", "flip_string"),
           ("returns $w spelled backwards", "reverses $w"), _W, "str",
           (("with a slice", "return $w[::-1]"),
            ("using a loop", '$out = ""\nfor $char in $w:\n    $out = $char + $out\nreturn $out'),
            ("recursively", "if len($w) < 2:\n    return $w\nreturn ${self}($w[1:]) + $w[0]")),
           lambda w: "".join(reversed(w))),
    Family("palindrome", ("is_palindrome", "reads_both_ways", "is_mirror"),
           ("tells whether $w is a palindrome", "checks if $w reads the same in both directions"), _W, "bool",
           (("with a slice", "return $w == $w[::-1]"),
            ("using a loop", "for $index in range(len($w) // 2):\n    if $w[$index] != $w[-1 - $index]:\n"
             "        return False\nreturn True"),
            ("recursively",
             "if len($w) < 2:\n    return True\nreturn $w[0] == $w[-1] and ${self}($w[1:-1])")),
           lambda w: list(w) == list(reversed(w))),
    Family("replace", ("replace_$a", "swap_$a", "change_letter"),
           ("returns $w with every '$a' replaced by '$b'", "replaces each '$a' in $w with '$b'"), _W, "str",
           (("in one line", 'return $w.replace("$a", "$b")'),
            ("using a loop", '$out = ""\nfor $char in $w:\n    $out += "$b" if $char == "$a" else $char\n'
             "return $out")), lambda w, a, b: b.join(w.split(a)),
           (("a", _LETTERS), ("b", ("*", "#", "_", "x", "z")))),
    Family("repeat", ("repeat_text", "echo_$k", "repeat_$k"),
           ("returns $w repeated $k times with '$s' between", "writes $w $k times, separated by '$s'"), _W,
           "str",
           (("in one line", 'return "$s".join([$w] * $k)'),
            ("using a loop", "$out = $w\nfor _ in range($k - 1):\n    $out += \"$s\" + $w\nreturn $out")),
           lambda w, k, s: (w + s) * (k - 1) + w, (("k", (2, 3, 4)), ("s", ("-", "+", ",", "/")))),
    Family("char_counts", ("letter_counts", "count_letters", "frequencies"),
           ("returns a dictionary with the count of each character in $w",
            "counts every character of $w in a dict"),
           _W, "dict[str, int]",
           (("using a loop",
             "$out = {}\nfor $char in $w:\n    $out[$char] = $out.get($char, 0) + 1\nreturn $out"),
            ("with a comprehension", "return {$char: $w.count($char) for $char in $w}")),
           lambda w: dict(Counter(w))),
    Family("letter_index", ("positions_of_$a", "find_all_$a", "places_of_$a"),
           ("returns the indexes at which '$a' stands in $w", "lists every position of '$a' in $w"), _W,
           "list[int]",
           (("with a comprehension", 'return [$index for $index, $char in enumerate($w) if $char == "$a"]'),
            ("using a loop", '$out = []\nfor $index in range(len($w)):\n    if $w[$index] == "$a":\n'
             "        $out.append($index)\nreturn $out")),
           lambda w, a: [m.start() for m in re.finditer(a, w)], (("a", _LETTERS),)),
    Family("shift", ("shift_letters", "caesar_$k", "shift_by_$k"),
           ("moves each lowercase letter of $w forward by $k in the alphabet",
            "shifts the lowercase letters of $w by "
            "$k places, from z back to a"), _W, "str",
           (("using a loop", '$out = ""\nfor $char in $w:\n    place = (ord($char) - 97 + $k) % 26\n'
             "    $out += chr(place + 97)\nreturn $out"),
            ("in one line", 'return "".join(chr((ord($char) - 97 + $k) % 26 + 97) for $char in $w)')),
           lambda w, k: "".join(("abcdefghijklmnopqrstuvwxyz" * 2)["abcdefghijklmnopqrstuvwxyz".index(c) + k]
                                for c in w), (("k", (1, 2, 3, 4)),)),
    Family("alternate_case", ("alternate_case", "zigzag_case", "wave_text"),
           ("returns $w with capitals at the even indexes",
            "changes every second character of $w to upper case, "
            "starting with the first"), _W, "str",
           (("using a loop", '$out = ""\nfor $index, $char in enumerate($w):\n'
             "    $out += $char.upper() if $index % 2 == 0 else $char\nreturn $out"),
            ("in one line", 'return "".join($char if $index % 2 else $char.upper() for $index, $char in '
             "enumerate($w))")),
           lambda w: "".join(w[i].upper() if i in range(0, 99, 2) else w[i] for i in range(len(w)))),
    Family("pad", ("pad_text", "pad_to_$k", "fill_to_$k"),
           ("pads $w on the right with '$s' up to $k characters",
            "returns $w filled at the end with '$s' to length $k"),
           _W, "str",
           (("with a while loop", 'while len($w) < $k:\n    $w += "$s"\nreturn $w'),
            ("in one line", 'return $w + "$s" * ($k - len($w))')), lambda w, k, s: w.ljust(k, s),
           (("k", (6, 7, 8, 9)), ("s", (".", "-", "*", "_")))),
    Family("shorten", ("shorten", "truncate", "cut_to_$k"),
           ("returns the first $k characters of $w, with '$s' added if something was cut off",
            "cuts $w after $k characters and adds '$s' when it was longer"), _W, "str",
           (("with if", 'if len($w) <= $k:\n    return $w\nreturn $w[:$k] + "$s"'),
            ("in one line", 'return $w if len($w) <= $k else $w[:$k] + "$s"')),
           lambda w, k, s: w[:k] + s * (len(w) > k), (("k", (3, 4, 5)), ("s", ("...", "~", "+")))),
    Family("same_letters", ("same_letters", "are_anagrams", "is_anagram"),
           ("tells whether $w and $v are made of the same letters", "checks if $w and $v are anagrams"),
           (("w", "word"), ("v", "other_word")), "bool",
           (("by sorting", "return sorted($w) == sorted($v)"),
            ("by counting", "for $char in $w + $v:\n    if $w.count($char) != $v.count($char):\n"
             "        return False\nreturn True")), lambda w, v: Counter(w) == Counter(v)),
    Family("word_count", ("word_count", "count_words", "how_many_words"),
           ("counts the words in $s", "returns how many words $s has"), _S, "int",
           (("in one line", "return len($s.split())"),
            ("using a loop", "$count = 0\nfor _ in $s.split():\n    $count += 1\nreturn $count")),
           lambda s: s.count(" ") + 1),
    Family("reverse_words", ("reverse_words", "words_backwards", "flip_sentence"),
           ("returns the words of $s in reverse order", "turns the order of the words in $s around"), _S,
           "str",
           (("with a slice", 'return " ".join($s.split()[::-1])'),
            ("using a loop", '$out = []\nfor $part in $s.split():\n    $out.insert(0, $part)\n'
             'return " ".join($out)')), lambda s: " ".join(reversed(s.split(" ")))),
    Family("acronym", ("acronym", "initials", "first_letters"),
           ("returns the first letters of the words in $s as capitals",
            "builds an acronym in capitals from $s"), _S,
           "str",
           (("in one line", 'return "".join($part[0].upper() for $part in $s.split())'),
            ("using a loop",
             '$out = ""\nfor $part in $s.split():\n    $out += $part[0].upper()\nreturn $out')),
           lambda s: "".join(c for c in s.title() if c.isupper())),
    Family("title", ("title_words", "capitalize_words", "make_title"),
           ("capitalizes each word of $s", "returns $s with a capital letter at the start of every word"), _S,
           "str",
           (("in one line", 'return " ".join($part.capitalize() for $part in $s.split())'),
            ("using a loop",
             "$out = []\nfor $part in $s.split():\n    $out.append($part[0].upper() + $part[1:])\n"
             'return " ".join($out)')), str.title),
    Family("slug", ("slugify", "join_words", "make_slug"),
           ("returns the words of $s joined by '$s2'", "puts '$s2' in place of the spaces in $s"), _S, "str",
           (("in one line", 'return "$s2".join($s.split())'),
            ("with replace", 'return $s.replace(" ", "$s2")')),
           lambda s, t: "".join(t if c == " " else c for c in s), (("s2", ("-", "_", "+", "/")),)),
    Family("longest_word", ("longest_word", "longest_of", "find_longest"),
           ("returns the longest word in $ws, the first one if several",
            "finds the first longest word of $ws"), _WS,
           "str",
           (("with max", "return max($ws, key=len)"),
            ("using a loop", "$best = $ws[0]\nfor $part in $ws:\n    if len($part) > len($best):\n"
             "        $best = $part\nreturn $best")), lambda v: sorted(v, key=lambda w: -len(w))[0]),
    Family("sort_length", ("sort_by_length", "by_length", "order_by_size"),
           ("returns $ws sorted by length, then alphabetically",
            "sorts $ws from short to long, equal lengths by "
            "alphabet"), _WS, "list[str]",
           (("with a key", "return sorted($ws, key=lambda $part: (len($part), $part))"),
            ("by sorting twice", "$out = sorted($ws)\n$out.sort(key=len)\nreturn $out")),
           lambda v: [w for n in range(20) for w in sorted(v) if len(w) == n]),
    Family("sort_last", ("sort_by_last", "by_last_letter", "order_by_ending"),
           ("returns $ws sorted by the last letter", "sorts $ws by the letter each word ends with"), _WS,
           "list[str]",
           (("with a key", "return sorted($ws, key=lambda $part: $part[-1])"),
            ("with sort", "$out = list($ws)\n$out.sort(key=lambda $part: $part[-1])\nreturn $out")),
           lambda v: [w for c in "abcdefghijklmnopqrstuvwxyz" for w in v if w[-1] == c]),
    Family("numbered", ("numbered", "number_lines", "with_numbers"),
           ("returns $ws as strings numbered from $k, like '$k: word'",
            "puts a number and a colon before each word of "
            "$ws, counting from $k"), _WS, "list[str]",
           (("with enumerate", 'return [f"{$index}: {$part}" for $index, $part in enumerate($ws, $k)]'),
            ("using a loop", '$out = []\nfor $index, $part in enumerate($ws):\n'
             '    $out.append(f"{$index + $k}: {$part}")\nreturn $out')),
           lambda v, k: [str(k + i) + ": " + w for i, w in enumerate(v)], (("k", (1, 2, 5)),)),
)


_D = (("d", "scores"),)
_P = (("p", "pairs"),)


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
