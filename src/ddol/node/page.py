"""The live page of a node: one file, which asks for figures every second."""

from __future__ import annotations

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>ddol node</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b2733}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%;display:block;overflow-x:auto}
td,th{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #dde3e8}
.big{display:flex;gap:2.5rem;flex-wrap:wrap}.big div{min-width:7rem}.big b{display:block;font-size:1.6rem}
figure{margin:1.2rem 0}
svg{width:100%;height:120px;background:#f6f8fa}
figcaption,.note{color:#56616d;font-size:.9rem}
.lead{font-size:1.1rem;max-width:42rem}
@media(prefers-color-scheme:dark){body{background:#14191f;color:#dde3e8}svg{background:#1d242c}
figcaption,.note{color:#a3adb8}
td,th{border-color:#2d3742}}
</style></head><body><h1 id="name">ddol node</h1><p class="note" id="note"
role="status"></p><main id="models"></main>
<script>
const past={};
const percent=x=>(100*x).toFixed(2)+' %';
const el=(tag,text,cls)=>{const e=document.createElement(tag);if(text!==undefined)e.textContent=text;
 if(cls)e.className=cls;return e};
function table(head,rows){const t=el('table'),h=el('tr');
 head.forEach(c=>{const th=el('th',c);th.scope='col';h.append(th)});t.append(h);
 rows.forEach(r=>{const tr=el('tr');r.forEach(c=>tr.append(el('td',c)));t.append(tr)});return t}
function curve(values,as){const box=el('figure'),ns='http://www.w3.org/2000/svg',s=document.createElementNS(ns,'svg');
 s.setAttribute('role','img');
 s.setAttribute('aria-label','Error of the most recent labels over time, now '+as(values.at(-1)));
 s.setAttribute('viewBox','0 0 300 100');s.setAttribute('preserveAspectRatio','none');
 const top=1.1*Math.max(...values,1e-9),p=document.createElementNS(ns,'polyline');
 p.setAttribute('points',values.map((v,k)=>`${300*k/Math.max(values.length-1,1)},${98-94*v/top}`).join(' '));
 p.setAttribute('fill','none');p.setAttribute('stroke','#2274c5');p.setAttribute('stroke-width','1.5');
 p.setAttribute('vector-effect','non-scaling-stroke');s.append(p);
 box.append(s,el('figcaption','Error of the most recent labels since this page was opened; '+
  'from 0 at the bottom to '+as(top)+' at the top.'));return box}
const many=(n,what)=>n+' '+what+(n===1?'':'s');
function lead(m,as,regression){
 if(!m.examples)return 'No label has arrived yet, so nothing has been learned. '+
  many(m.predictions,'prediction')+' so far.';
 const wrong=regression?`Mean squared error of the most recent labels: ${as(m.error_window)}. `
  :`${as(m.error_window)} of the most recent predictions were wrong. `;
 const peers=m.peers.filter(p=>p.alive).length;
 return wrong+`It has learned from ${many(m.examples,'label')}; ${many(m.waiting,'prediction')} `+
  (m.waiting===1?'waits':'wait')+' for a label. '+
  (peers?`It shares what it learns with ${many(peers,'other node')}.`:'No other node is connected.')}
function sharing(s,as){const helped={yes:'Sharing helps this node',no:'This node does better alone',
  unclear:'Whether sharing helps this node is not clear yet'}[s.helped];
 return `${helped}: alone ${as(s.error_alone)}, shared ${as(s.error_shared)}, and what it predicts with `+
  `${as(s.error)}, all since the start. The shared model has ${percent(s.weight_shared)} of the vote.`}
function show(model,m){const box=el('section');box.append(el('h2','Model '+model+' ('+m.algorithm+')'));
 const big=el('div',undefined,'big');
 const regression=!m.classes.length&&m.examples>0;
 const as=x=>x==null?'unknown':regression?x.toPrecision(4):percent(x);
 box.append(el('p',lead(m,as,regression),'lead'));
 [['error of recent labels',as(m.error_window)],['error so far',as(m.error)],['labels learned',m.examples],
  ['waiting for labels',m.waiting],['predictions',m.predictions]].forEach(([t,v])=>{const d=el('div',t);
  d.prepend(el('b',String(v)));big.append(d)});box.append(big);
 (past[model]=past[model]||[]).push(m.error_window);if(past[model].length>600)past[model].shift();
 box.append(curve(past[model],as));const s=m.sites;
 if(s&&s.weight_shared!=null)box.append(el('p',sharing(s,as)));
 if(m.privacy)box.append(el('p',`Privacy: ε ${m.privacy.spent.toFixed(2)} of ${m.privacy.epsilon} spent`+
  ` (δ ${m.privacy.delta})`+(m.privacy.used_up?'; used up: nothing more of this site is shared':'')));
 if(m.peers.length)box.append(table(
  ['node','connected','messages','examples','last message','refused','averaged with'],
  m.peers.map(p=>[p.name,p.alive?'yes':'no',p.messages,p.examples,
   p.heard?Math.round(Date.now()/1000-p.heard)+' s ago':'never',
   p.refused?p.refused+' '+JSON.stringify(p.reasons):0,p.trusted===undefined?'':p.trusted?'yes':'no'])));
 return box}
async function look(){try{const r=await fetch('live.json');if(!r.ok)throw new Error(r.status);
 const all=await r.json();document.getElementById('name').textContent='Node '+all.name;
 document.title=all.name+' · ddol';document.getElementById('note').textContent='';
 const at=document.getElementById('models');
 at.replaceChildren(...Object.entries(all.models).map(([k,m])=>show(k,m)));
 }catch(e){document.getElementById('note').textContent=
  'The node does not answer ('+e.message+'); this page tries again every second.'}
 setTimeout(look,1000)}
look();
</script></body></html>
"""
