"""What a controller without gangs does: each worker goes where there is a slot."""

import sqlite3

db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE nodes (name TEXT, slots INTEGER)")
db.execute("CREATE TABLE workers (name TEXT, node TEXT)")
db.executemany("INSERT INTO nodes VALUES (?, ?)", [("node-0", 2), ("node-1", 2)])
for number in range(3):
    for job in ("red", "blue"):
        db.execute("INSERT INTO workers (name) VALUES (?)", (f"{job}-{number}",))

FREE = """
SELECT name FROM nodes WHERE slots > (SELECT count(*) FROM workers WHERE node = nodes.name)
"""
for (name,) in db.execute("SELECT name FROM workers ORDER BY rowid").fetchall():
    for (node,) in db.execute(FREE).fetchmany(1):
        db.execute("UPDATE workers SET node = ? WHERE name = ?", (node, name))

for name, node in db.execute("SELECT name, node FROM workers ORDER BY name DESC"):
    print(name, node or "-")
