import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { App } from "./app";
import { start } from "./live";
import { applyPrefs } from "./prefs";

applyPrefs();
start();
render(<App />, document.getElementById("page") as HTMLElement);
