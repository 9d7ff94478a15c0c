"""Word problems about ways, times and speeds."""

from __future__ import annotations

from engine.training.corpus.math_template import Template

TRAVEL: tuple[Template, ...] = (
    Template(
        name="steady_speed",
        numbers="speed 11-60, hours 2-6, walk 2-20",
        steps="ride = hours * speed; total = ride + walk",
        prompts=(
            "A train goes {speed} kilometers an hour for {hours} hours. Then a bus takes {name} {walk}"
            " kilometers further. How many kilometers does {name} travel?",
            "{name} drives from {town} for {hours} hours at {speed} kilometers an hour and then another"
            " {walk} kilometers to {far}. How long is the whole way in kilometers?",
        ),
        responses=(
            "In {hours} hours at {speed} kilometers an hour, {name} covers {ride_eq} kilometers. The last"
            " part adds {walk} kilometers: {total_eq} kilometers.",
            "{first} the main part is {ride_eq} kilometers. {then} the last {walk} kilometers are added:"
            " {total_eq} kilometers. {so} the whole way is {total} kilometers.",
        ),
    ),
    Template(
        name="remaining_way",
        numbers="speed 11-40, hours 2-6, more 11-90",
        given="done = hours * speed; way = done + more",
        steps="done = hours * speed; left = way - done",
        prompts=(
            "{town} is {way} kilometers from {far}. {name} has been riding for {hours} hours at {speed}"
            " kilometers an hour. How many kilometers are left?",
            "The way from {town} to {far} is {way} kilometers long. A bus travels {hours} hours at {speed}"
            " kilometers an hour. How far is it still from {far}?",
        ),
        responses=(
            "{hours} hours at {speed} kilometers an hour make {done_eq} kilometers. Of the {way}"
            " kilometers, {left_eq} kilometers are left to go.",
            "{first} find the part that is done: {done_eq} kilometers. {then} take it from the whole way"
            " of {way} kilometers: {left_eq} kilometers. {so} {left} kilometers remain.",
        ),
    ),
    Template(
        name="two_legs",
        numbers="one 11-99, two 11-99, three 11-99",
        steps="both = one + two; total = both + three",
        prompts=(
            "{name} drives {one} kilometers on {day}, {two} kilometers on {next_day} and {three}"
            " kilometers on Sunday. How many kilometers is that in all?",
            "From {town} a road runs {one} kilometers to the lake, then {two} kilometers to the hills and"
            " {three} kilometers to {far}. How long is the road?",
            "A trip has three parts of {one}, {two} and {three} kilometers. How long is the trip?",
        ),
        responses=(
            "The first two parts are {both_eq} kilometers. With the third part of {three} kilometers, the"
            " sum is {total_eq} kilometers.",
            "{first} add {one} and {two}: {both_eq} kilometers. {then} add the last {three} kilometers:"
            " {total_eq} kilometers. {so} it is {total} kilometers in all.",
        ),
    ),
    Template(
        name="bus_stops",
        numbers="start 12-60, off 2-30, on 2-40",
        steps="rest = start - off; now = rest + on",
        prompts=(
            "A bus leaves {town} with {start} passengers. At the next stop {off} get off and {on} get on."
            " How many passengers are on the bus now?",
            "There are {start} people on a train to {far}. In {town}, {off} people leave the train and"
            " {on} people board it. How many people are on the train then?",
        ),
        responses=(
            "{first} {off} people leave, so {rest_eq} people stay. {then} {on} people join them, which"
            " makes {now_eq} people. {so} there are {now} people on board.",
            "After {off} of the {start} people have left, {rest_eq} people remain. With the {on} new ones,"
            " there are {now_eq} people.",
        ),
    ),
    Template(
        name="daily_ride",
        numbers="way 2-12, days 2-6, extra 11-50",
        steps="day = 2 * way; week = days * day; total = week + extra",
        prompts=(
            "{name} rides {way} kilometers to work and {way} kilometers back, {days} days a week. On"
            " Sunday {he} rides {extra} kilometers. How many kilometers does {he} ride in a week?",
            "The school is {way} kilometers from the house of {name}. {He} cycles there and back on {days}"
            " days and makes a trip of {extra} kilometers on Sunday. How far does {he} cycle in all?",
        ),
        responses=(
            "There and back is {day_eq} kilometers a day. On {days} days that makes {week_eq} kilometers."
            " With the {extra} kilometers on Sunday, it is {total_eq} kilometers.",
            "{first} one day has {day_eq} kilometers. {then} {days} days have {week_eq} kilometers. Sunday"
            " adds {extra} kilometers: {total_eq} kilometers.",
        ),
    ),
    Template(
        name="seats",
        numbers="cars 2-9, seats 11-40, taken 11-99",
        steps="all = cars * seats; free = all - taken",
        prompts=(
            "A train has {cars} cars with {seats} seats each. {taken} seats are taken. How many seats are"
            " free?",
            "{cars} buses with {seats} seats each go from {town} to {far}. {taken} people have a ticket."
            " How many seats stay empty?",
            "{name} counts {taken} passengers in a train of {cars} cars. Each car has {seats} seats. How"
            " many empty seats are there?",
        ),
        responses=(
            "{first} find all the seats: {all_eq} seats. {then} take away the {taken} that are taken:"
            " {free_eq} seats. {so} {free} seats are free.",
            "With {cars} times {seats} seats, there are {all_eq} seats. People sit on {taken} of them, so"
            " {free_eq} seats are empty.",
        ),
    ),
    Template(
        name="fuel",
        numbers="tank 30-60, each 2-9, hours 2-6",
        steps="used = hours * each; left = tank - used",
        prompts=(
            "A truck starts with {tank} liters of fuel and uses {each} liters every hour. How many liters"
            " are left after {hours} hours?",
            "{name} leaves {town} with {tank} liters in the tank. The engine burns {each} liters an hour."
            " How much fuel is in the tank after {hours} hours?",
        ),
        responses=(
            "In {hours} hours the engine uses {used_eq} liters. From the {tank} liters at the start,"
            " {left_eq} liters are left in the tank.",
            "{first} the fuel used is {used_eq} liters. {then} take it from the {tank} liters: {left_eq}"
            " liters. {so} {left} liters remain.",
        ),
    ),
    Template(
        name="journey_minutes",
        numbers="walk 3-30, ride 11-59, wait 2-20",
        steps="both = walk + ride; total = both + wait",
        prompts=(
            "{name} walks {walk} minutes to the station, waits {wait} minutes and rides {ride} minutes to"
            " {far}. How many minutes does the journey take?",
            "To reach {far}, {name} needs {walk} minutes on foot, {ride} minutes by train and {wait}"
            " minutes of waiting. How long is {he} on the way?",
        ),
        responses=(
            "{first} the walk and the ride take {both_eq} minutes. {then} add the {wait} minutes of"
            " waiting: {total_eq} minutes. {so} the journey takes {total} minutes.",
            "Walking and riding take {both_eq} minutes together. The {wait} minutes of waiting make it"
            " {total_eq} minutes in all.",
        ),
    ),
    Template(
        name="hours_needed",
        numbers="hours 2-9, speed 2-12, extra 2-6",
        given="way = hours * speed",
        steps="hours_ride = way / speed; total = hours_ride + extra",
        prompts=(
            "A boat goes {speed} kilometers an hour. The way to the island is {way} kilometers, and there"
            " is a break of {extra} hours. How many hours does the trip take?",
            "{name} hikes {way} kilometers at {speed} kilometers an hour and rests for {extra} hours. How"
            " many hours is {he} on the way?",
        ),
        responses=(
            "At {speed} kilometers an hour, {way} kilometers take {hours_ride_eq} hours. With the break of"
            " {extra} hours, it takes {total_eq} hours.",
            "{first} find the moving time: {hours_ride_eq} hours. {then} add the {extra} hours of rest:"
            " {total_eq} hours. {so} the whole trip takes {total} hours.",
        ),
    ),
    Template(
        name="farther",
        numbers="speed 11-40, fast 12-60, hours 2-6",
        steps="slow_way = hours * speed; fast_way = hours * fast; gap = fast_way - slow_way",
        prompts=(
            "{name} rides {speed} kilometers an hour and {other} rides {fast} kilometers an hour. How many"
            " kilometers farther does {other} get in {hours} hours?",
            "A slow bus goes {speed} kilometers an hour and a fast car {fast} kilometers an hour. Both"
            " leave {town} together. How many kilometers lie between them after {hours} hours?",
        ),
        responses=(
            "In {hours} hours the slower one covers {slow_way_eq} kilometers. The faster one covers"
            " {fast_way_eq} kilometers. The gap is {gap_eq} kilometers.",
            "{first} {speed} kilometers an hour for {hours} hours make {slow_way_eq} kilometers. {then}"
            " {fast} kilometers an hour make {fast_way_eq} kilometers. The difference is {gap_eq}"
            " kilometers.",
        ),
    ),
)
