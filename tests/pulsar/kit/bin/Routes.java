import java.lang.annotation.Annotation;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/** Prints each route of the broker's admin API as "METHOD TAB path TAB class#method", from its annotations. */
final class Routes {
    private static final Set<String> METHODS = Set.of("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH");

    public static void main(String[] args) throws Exception {
        TreeSet<String> routes = new TreeSet<>();
        for (String path : System.getProperty("java.class.path").split(":")) {
            if (!path.matches(".*/pulsar-broker-[0-9].*\\.jar")) {
                continue;
            }
            try (JarFile jar = new JarFile(path)) {
                for (JarEntry entry : Collections.list(jar.entries())) {
                    String name = entry.getName();
                    if (name.startsWith("org/apache/pulsar/broker/") && name.matches("[^$]*\\.class")) {
                        add(routes, name.replace('/', '.').replaceAll("\\.class$", ""));
                    }
                }
            }
        }
        routes.forEach(System.out::println);
    }

    private static void add(Set<String> routes, String name) throws Exception {
        try {
            Class<?> resource = Class.forName(name, false, Routes.class.getClassLoader());
            String base = valueOf(resource.getAnnotations());
            if (base == null) {
                return;
            }
            for (Method method : resource.getMethods()) {
                String path = valueOf(method.getAnnotations());
                for (Annotation each : method.getAnnotations()) {
                    if (METHODS.contains(each.annotationType().getSimpleName())) {
                        String whole = ("/" + base + "/" + (path == null ? "" : path)).replaceAll("/+", "/");
                        routes.add(each.annotationType().getSimpleName() + "\t" + whole + "\t"
                                + name + "#" + method.getName());
                    }
                }
            }
        } catch (NoClassDefFoundError withoutOptionalDependency) {
            // A class of a plugin that the kit leaves out has no routes.
        }
    }

    private static String valueOf(Annotation[] annotations) throws Exception {
        for (Annotation each : annotations) {
            if (each.annotationType().getSimpleName().equals("Path")) {
                return (String) each.annotationType().getMethod("value").invoke(each);
            }
        }
        return null;
    }
}
