// In a frame of another website a browser may refuse the page its stores. They then last as long as the page does.

for (const name of ["sessionStorage", "localStorage"]) {
  try {
    void globalThis[/** @type {"localStorage"} */ (name)];
  } catch {
    const kept = /** @type {Map<string, string>} */ (new Map());
    Object.defineProperty(globalThis, name, { value: {
      getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
      setItem: (/** @type {string} */ key, /** @type {string} */ value) => void kept.set(key, value),
      removeItem: (/** @type {string} */ key) => void kept.delete(key),
      clear: () => kept.clear(),
    } });
  }
}
