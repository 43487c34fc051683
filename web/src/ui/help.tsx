import { useEffect, useRef } from 'preact/hooks';

const keys: [string, string][] = [
  ['/', 'search frames'],
  ['Tab', 'next area: graph, values, tables'],
  ['← →', 'neighbouring frames'],
  ['↑ ↓', 'callers and callees'],
  ['Enter', 'zoom into the frame'],
  ['Backspace', 'zoom out by one frame'],
  ['Esc', 'zoom out to all'],
  ['Home', 'the outermost frame'],
  ['?', 'this help'],
];

export function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={close}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <div class="inside">
        <h2 id="help-title">Reading this page</h2>
        <p>
          Each bar is a function. The bars below it (above, in the flame layout) are its callees. Its width is the
          time spent in it. With “Group by”, the outermost bars are values of labels. “Inverted” begins with the functions
          in which time was spent. “Callers” shows the callers of a function above it and its callees below. The search
          also selects functions and values in the tables.
        </p>
        <dl>{keys.map(([key, what]) => <><dt><kbd>{key}</kbd></dt><dd>{what}</dd></>)}</dl>
        <p>
          A filter has the syntax of the command line: <code>tenant=acme</code>, <code>route~^/pay</code>,{' '}
          <code>step!=idle</code>, <code>route!~health</code>; <code>tenant=</code> matches samples without a tenant.
          The address of the page contains the view: share it together with the file.
        </p>
        <button class="button" onClick={() => dialog.current?.close()}>Close</button>
      </div>
    </dialog>
  );
}
