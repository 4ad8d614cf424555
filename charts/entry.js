// What report pages draw with: the marks that page.js uses, so that the rest is left out.
import {
  axisX, axisY, barX, barY, cell, dot, gridX, gridY, lineY, areaY, plot, pointer, pointerX,
  rectY, ruleX, ruleY, text, tip,
} from "@observablehq/plot";

globalThis.Plot = {
  axisX, axisY, barX, barY, cell, dot, gridX, gridY, lineY, areaY, plot, pointer, pointerX,
  rectY, ruleX, ruleY, text, tip,
};
