// What the scripts share, for the type checker; none of this is shipped. A script adds what it defines to the global
// Canopy, and Gradio, which is not ours, decides what its elements are.
declare const Canopy: any;

interface Window {
  Canopy: any;
  Plotly: any;
  gradio_config: any;
}

// A selector says which kind of element it finds; `document.querySelector` cannot know.
interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}

interface Document {
  readonly activeElement: HTMLElement | null;
}
