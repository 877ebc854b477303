#pragma once

// Of the page: light and dark, as the reader's system is.
inline constexpr const char* style = R"(:root {
  color-scheme: light dark;
  --paper: #fcfcfb; --ink: #1d2126; --soft: #667080; --line: #e1e4e8; --card: #ffffff;
  --fine: #1a7f4b; --fine-paper: #e6f5ec; --wrong: #b3261e; --wrong-paper: #fdeceb;
  --refused: #8a5a00; --refused-paper: #fdf3dc; --inside: #3f6fd8; --red: #e5484d;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e6e8eb; --soft: #97a1ae; --line: #2b3138; --card: #1b1f25;
    --fine: #5fd394; --fine-paper: #16301f; --wrong: #ff8f87; --wrong-paper: #3a1c1b;
    --refused: #f0c25d; --refused-paper: #362a10; --inside: #6f98f0; --red: #ff5a5f;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; letter-spacing: -.02em; }
h2 { font-size: 1.25rem; margin: 0 0 .75rem; }
header p { max-width: 44rem; color: var(--soft); margin: 0 0 1.75rem; }
a { color: inherit; text-decoration: none; }
a:hover, a:focus-visible { text-decoration: underline; }
.wide { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 4px; width: 100%; min-width: 46rem; font-size: .92rem; }
th { text-align: left; font-weight: 600; padding: .5rem .6rem; }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; }
tbody th { white-space: nowrap; }
tbody td { border-radius: 6px; padding: 0; }
tbody td a { display: block; padding: .5rem .6rem; white-space: nowrap; }
.fine { color: var(--fine); } td.fine { background: var(--fine-paper); }
.wrong { color: var(--wrong); } td.wrong { background: var(--wrong-paper); }
.refused { color: var(--refused); } td.refused { background: var(--refused-paper); }
.accidents { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .75rem 1.5rem; margin: 1.75rem 0; font-size: .9rem; }
dt { font-weight: 600; } dd { margin: 0; color: var(--soft); }
.legend { color: var(--soft); font-size: .9rem; margin: 0 0 2rem; }
.legend i { display: inline-block; width: 1.4rem; height: .7rem; border-radius: 3px; margin: 0 .15rem 0 .8rem; }
.legend i.waiting { height: .2rem; vertical-align: middle; } .legend b { margin-left: .8rem; color: var(--ink); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.25rem; margin-top: 1.25rem; }
section > p { color: var(--soft); margin: .75rem 0 0; }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: .75rem 1rem; margin: 0; overflow-x: auto; font: .85rem/1.5 ui-monospace, monospace; }
figure { margin: 1.5rem 0 0; scroll-margin-top: 1rem; }
figure:target { outline: 2px solid var(--inside); outline-offset: 8px; border-radius: 6px; }
figcaption { margin-bottom: .4rem; font-size: .92rem; } figcaption b { margin-right: .5rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg text.name { font-weight: 600; fill: var(--ink); }
svg text.bad { font-size: 16px; fill: var(--wrong); } svg text.warn { font-size: 16px; fill: var(--refused); }
b.bad { color: var(--wrong) !important; } b.warn { color: var(--refused) !important; }
line.axis { stroke: var(--line); } svg text.axis { font-size: 10px; }
rect.waiting { fill: var(--soft); opacity: .55; } i.waiting { background: var(--soft); opacity: .55; }
rect.inside { fill: var(--inside); } i.inside { background: var(--inside); }
rect.stopped { fill: none; stroke: var(--soft); stroke-dasharray: 4 3; } i.stopped { border: 1px dashed var(--soft); }
rect.red { fill: var(--red); opacity: .35; } i.red { background: var(--red); opacity: .5; }
circle.write { fill: var(--card); stroke: var(--ink); stroke-width: 2; }
)";
