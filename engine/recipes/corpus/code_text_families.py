"""Families of functions over a word, a sentence or a list of words."""

from __future__ import annotations

import re
from collections import Counter

from engine.recipes.corpus.code_families import Family

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
