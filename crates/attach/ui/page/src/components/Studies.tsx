import { useEffect, useState } from "preact/hooks";
import { api, ApiError, type Study } from "../api";
import { link } from "../live";

/** Reports of studies that were run on this machine. */
export function Studies() {
  const [studies, setStudies] = useState<readonly Study[] | null>(null);
  const [error, setError] = useState("");
  const live = link.value === "live";
  useEffect(() => {
    const load = async () => {
      try {
        setStudies(await api.studies());
        setError("");
      } catch (failure) {
        if (!(failure instanceof ApiError)) throw failure;
        setError(failure.message);
      }
    };
    void load();
  }, [live]);
  return (
    <section id="studies" aria-labelledby="studies-title">
      <div class="section-head">
        <h2 id="studies-title">Study reports</h2>
      </div>
      <div class="card">
        {error !== "" && <p class="inline-error">{error}</p>}
        {studies?.length === 0 && (
          <p class="muted">
            No reports yet. <code>tranche study doublewrite</code> makes one, for instance.
          </p>
        )}
        {studies !== null && studies.length > 0 && (
          <ul class="studies">
            {studies.map((study) => (
              <li key={study.name}>
                <a href={study.url}>{study.title}</a> <span class="muted">{study.name}</span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}
