#include "analyzer/report/html/parts.h"

namespace lockstep {

// States differ in pattern and outline as well as in color, so that they are readable in gray and for color-blind
// readers.
const char* HtmlStyle() {
  return R"css(
:root{--bg:#f4f6f8;--card:#fff;--text:#1b1f24;--soft:#566270;--line:#d5dce3;--bad:#b3261e;--badbg:#fdeceb;--warn:#8a5a00;
--warnfill:#e0a030;--ok:#1a7f37;--okfill:#9cc9a8;--cool:#0b5cad;--code:#eef1f4;color-scheme:light}
@media(prefers-color-scheme:dark){:root{--bg:#0f1318;--card:#181d24;--text:#e3e8ee;--soft:#a0abb7;--line:#303943;--bad:#ff8f87;
--badbg:#3a1d1c;--warn:#e8b04b;--warnfill:#b9832b;--ok:#62c073;--okfill:#3c6b48;--cool:#79b8ff;--code:#222932;color-scheme:dark}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;margin:0;background:var(--bg);color:var(--text);
overflow-wrap:anywhere}
main{max-width:66rem;margin:0 auto;padding:1rem}
header,section{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:1rem 1.1rem;margin:0 0 1rem}
h1{font-size:1.3rem;line-height:1.35;margin:0;font-weight:600}
h2{font-size:1.02rem;margin:0 0 .7rem}h3{font-size:.95rem;margin:1.1rem 0 .4rem}
p{margin:.3rem 0}.soft{color:var(--soft)}.small{font-size:.88rem}
.chip{display:inline-block;border-radius:.35rem;padding:.05rem .55rem;color:var(--card);background:var(--bad);font-weight:700;
margin-right:.4rem}
.chip.ok{background:var(--ok)}.chip.warn{background:var(--warn)}
header.culprit{border-left:.4rem solid var(--bad)}header.ok{border-left:.4rem solid var(--ok)}
dl{display:grid;grid-template-columns:6rem minmax(0,1fr);gap:.3rem 1rem;margin:.8rem 0 0}
dt{color:var(--soft)}dd{margin:0;min-width:0}dd p{margin:0}
ol.do{margin:.2rem 0 0;padding-left:1.4rem}ol.do li{margin:.25rem 0}
ul.plain{list-style:none;margin:0;padding:0}ul.plain li{padding:.35rem 0;border-top:1px solid var(--line)}
ul.plain li:first-child{border-top:0}
code,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.86rem}
.flow{list-style:none;margin:0;padding:0}
.flow .row{display:flex;flex-wrap:wrap;gap:.6rem}
.node{flex:1 1 15rem;min-width:0;border:2px solid var(--line);border-radius:.5rem;padding:.45rem .7rem;background:var(--card)}
.node b{display:block}.node.culprit{border-color:var(--bad);background:var(--badbg)}
.node.victim{border-style:dashed;border-color:var(--warn)}
.arrow{display:flex;align-items:center;gap:.5rem;color:var(--soft);font-size:.85rem;padding:.15rem 0 .15rem 1.2rem}
.arrow svg{width:16px;height:26px;flex:none}
.key{display:flex;flex-wrap:wrap;gap:.35rem 1.1rem;margin:.2rem 0 .7rem;font-size:.86rem;color:var(--soft)}
.key span{display:inline-flex;align-items:center;gap:.4rem}
.key i{width:1.5rem;height:.95rem;flex:none}
.map{display:block;width:100%;height:auto}
.map .fine{fill:var(--okfill)}.map .victim{fill:url(#hatchmap)}.keymap .victim{fill:url(#hatch)}
.map .ring{fill:none;stroke:var(--bad);stroke-width:3;vector-effect:non-scaling-stroke}.map .culprit{fill:var(--bad);stroke:var(--text);stroke-width:1.4}
.map .nodata{fill:none;stroke:var(--soft);stroke-width:.8;stroke-dasharray:2 1.5}
.keymap{width:1.5rem;height:.95rem;flex:none}
.seq{margin:0 0 .35rem;display:grid;grid-template-columns:minmax(0,17rem) minmax(0,1fr);gap:0 .8rem;align-items:center}
.seq .who{font-size:.86rem;line-height:1.3}.seq.named .who{font-weight:700;color:var(--bad)}
.seq .who small{display:block;color:var(--soft);font-weight:400;font-size:.8rem}
.bar{display:grid;height:1.45rem;min-width:0}
.axis{height:auto;font-size:.78rem;color:var(--soft)}.axis span{white-space:nowrap;min-width:0;overflow:visible}
.axis .right{text-align:right;direction:rtl}.axis .at{color:var(--bad);font-weight:700}
.s{border:1px solid var(--card);border-radius:2px;min-width:0;font-style:normal;text-align:center;font-size:.8rem;line-height:1.3rem;
overflow:hidden;color:var(--text)}
.s-d{background:var(--okfill)}
.s-f{background:repeating-linear-gradient(135deg,var(--warnfill) 0 4px,var(--card) 4px 8px)}
.s-e{background:repeating-linear-gradient(0deg,var(--warnfill) 0 3px,var(--card) 3px 6px)}
.s-q{background:repeating-linear-gradient(90deg,var(--warnfill) 0 2px,var(--card) 2px 7px)}
.s-u{background:var(--code);border:1px solid var(--soft)}
.s-n{border:2px dashed var(--bad);background:none}
.s-o{background:radial-gradient(circle at 3px 3px,var(--soft) 1px,transparent 1.5px) 0 0/6px 6px}
.s-x{border:1px dotted var(--soft);background:none;color:var(--soft)}
.s-m{background:var(--bad);color:var(--card);font-weight:700}
.figure{display:grid;grid-template-columns:minmax(0,18rem) minmax(0,1fr);gap:.1rem 1rem;align-items:center;padding:.4rem 0;
border-top:1px solid var(--line)}
.figure .what{font-size:.88rem}.figure small{display:block;color:var(--soft)}
.meter{position:relative;height:.8rem;border:1px solid var(--line);border-radius:3px;background:var(--code);margin:.15rem 0}
.meter i{position:absolute;left:0;top:0;bottom:0;background:var(--cool);border-radius:2px;min-width:2px}
.meter i.second{background:repeating-linear-gradient(135deg,var(--cool) 0 3px,transparent 3px 6px)}
.meter i.low{background:var(--bad)}.meter.none{border-style:dashed;background:none}
.meter u{position:absolute;top:-2px;bottom:-2px;width:2px;background:var(--text)}
.scale{display:flex;justify-content:space-between;color:var(--soft);font-size:.78rem}
details{margin:.15rem 0}summary{cursor:pointer}details.tree,.leaf{padding-left:.75rem;border-left:2px solid var(--line);margin:.15rem 0}
.tree .mono,.leaf .mono{margin:0}.leaf{padding-left:1.7rem}
.named>summary .set,.leaf.named .set{color:var(--bad);font-weight:700}.set{color:var(--soft);font-size:.85rem}
footer{color:var(--soft);font-size:.85rem;padding:0 .2rem 1rem}
@media(max-width:40rem){main{padding:.5rem}header,section{padding:.8rem .8rem}h1{font-size:1.12rem}
dl{grid-template-columns:minmax(0,1fr);gap:0}dt{font-size:.82rem;margin-top:.5rem}
.seq,.figure{grid-template-columns:minmax(0,1fr)}.seq{margin-bottom:.6rem}.axisrow .who{display:none}}
@media print{body{background:none}header,section{break-inside:avoid}}
)css";
}

}  // namespace lockstep
