// The browser's half: ES modules, which explorer/bundle.py puts together.
import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    files: ["assets/**/*.js", "tests/node/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: { ...globals.browser, Plotly: "readonly" } },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "complexity": ["error", 20],
      "eqeqeq": "error",
      "max-params": ["error", 7],
      "no-control-regex": "off", // control characters in a token are drawn as signs, so they are looked for
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-unused-vars": ["error", { args: "none" }], // what a panel overrides names its arguments
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
