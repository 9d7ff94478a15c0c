// The figures of a saved report, whose data stand in the page; drawn again when the system turns dark or light.

import { CONFIG, dressed } from "./dressing.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const drawings = JSON.parse(document.querySelector("#drawings").textContent);

function draw() {
  document.body.classList.toggle("dark", dark.matches);
  document.querySelectorAll(".plot").forEach((plot, index) => {
    const { data, layout } = dressed(drawings[index], plot);
    window.Plotly.react(plot, data, layout, { ...CONFIG, responsive: true, displayModeBar: "hover" });
  });
}

dark.addEventListener("change", draw);
draw();
